// Read before the offline MathJax: typeset only what the book marked as mathematics, and nothing from elsewhere.
window.MathJax = {
  options: { processHtmlClass: "tex2jax_process|mathjax_process|math|output_area" },
};
