// Shows only the ledger's rows that fit the three selects. Without scripts the form stays hidden and every row is shown.
"use strict";

(() => {
  const wire = (form) => {
    const table = document.getElementById(form.dataset.table);
    if (!table) return;
    const rows = Array.from(table.tBodies[0].rows);
    const selects = Array.from(form.querySelectorAll("select[data-filter]"));
    const count = form.querySelector(".ledger-count");

    const apply = () => {
      let shown = 0;
      for (const row of rows) {
        const fits = selects.every(
          (select) =>
            select.value === "" || (row.dataset[select.dataset.filter] || "").split(" ").includes(select.value),
        );
        row.hidden = !fits;
        if (fits) shown += 1;
      }
      count.textContent = `${shown} of ${rows.length} claims shown`;
    };

    form.addEventListener("change", apply);
    form.addEventListener("submit", (event) => event.preventDefault());
    // The reset event fires before the selects change back.
    form.addEventListener("reset", () => window.setTimeout(apply, 0));
    form.hidden = false;
    apply();
    // A link to a row must find it, whatever a returning browser restored into the selects.
    window.addEventListener("hashchange", () => {
      const target = document.getElementById(window.location.hash.slice(1));
      if (target && rows.includes(target) && target.hidden) form.reset();
    });
  };

  const start = () => document.querySelectorAll("form.ledger-filter").forEach(wire);
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
