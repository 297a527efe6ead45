"""The two-head model as a standard attention layer: which weight matrices make ``torch.nn.MultiheadAttention``
equal.

Derivation. A layer of width 2m with two heads has head size m. It is given d + 1 tokens, a CLS token in front,
and asked at the CLS token only. With W_Q (2m x 2m), W_K (2m x m), W_V (2m x 1), W_O (2m x 2m) and no biases,

    query of head h        W_Q[h] c            c = e_0, the CLS input, so only column 0 of W_Q is ever read
    key of token i         W_K[h] v_i          W_K[h] = I: keys see the position and not the bit
    value of token i       W_V[h] x_i          W_V[h] = e_0: values see the bit and not the position
    score                  (query . key) / sqrt(m)
    output                 o = W_O (concatenated heads), W_O = I; f = -o[0] o[m].

[h] stands for the rows of head h, 0..m-1 or m..2m-1. The key of the CLS token is masked, so its score is minus
infinity. Head h then attends with softmax_i(W_Q[h, 0] . v_i / sqrt(m)), which is softmax(V theta_h) exactly when

    theta_h = W_Q[h, 0] / sqrt(m),                                                                           (1)

and o[0] = gamma . x, o[m] = gamma~ . x.

Learning rates. By (1) and the chain rule dL/dW_Q[h, 0] = (dL/dtheta_h) / sqrt(m). A step with rate r on W_Q moves
theta_h by -(r / sqrt(m)) (dL/dtheta_h) / sqrt(m) = -(r / m) dL/dtheta_h. Hence, for each head alike,

    one step with rate eta on the queries = one step with rate m eta on W_Q.                                 (2)

W_K alone. dL/dW_K[h] = theta_h (dL/dtheta_h)^T, because the score is theta_h^T W_K[h] v_i. It is not zero: (2)
needs W_K kept fixed. What a step on both matrices does is in ``experiments.model``.

Source: our derivation; the paper's architecture as its summary gives it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._validation import read_embeddings

if TYPE_CHECKING:
    from ._transformer_module import SparseXorTransformer


def transformer(embeddings: Any, theta: Any, theta_tilde: Any) -> SparseXorTransformer:
    """The torch module that equals the model f(x) = -(gamma . x)(gamma~ . x).

    Parameters: ``embeddings`` of shape (d, m), rows of any length, d >= 2; ``theta`` and ``theta_tilde`` of shape
    (m,). They are copied; the module has their common dtype (float32 or float64; integers become float64).

    Returns a ``torch.nn.Module``: called with a batch x of shape (n, d), entries -1 and +1 (a tensor of any real
    dtype, an array or nested lists), it returns f(x) of shape (n,). Its ``attention`` is a
    ``torch.nn.MultiheadAttention`` whose W_Q is ``attention.q_proj_weight``; every weight is trainable.
    ``module.queries()`` reads (theta, theta_tilde) back and ``module.attention_weights()`` the weights, of shape
    (2, d). To take a step with learning rate eta on the queries, take one with rate m * eta on
    ``attention.q_proj_weight`` alone.

    Raises TypeError for entries that are not real numbers, ValueError for wrong shapes and values that are not
    finite; OverflowError when sqrt(m) theta or sqrt(m) V theta leaves the dtype; the module raises the first two for
    inputs that are not -1 and +1. torch is imported when this function is called.

    Source: our derivation, equations (1) and (2) of this module.
    """
    rows, first, second = read_embeddings(embeddings, theta=theta, theta_tilde=theta_tilde)

    from ._transformer_module import SparseXorTransformer

    return SparseXorTransformer(rows, first, second)
