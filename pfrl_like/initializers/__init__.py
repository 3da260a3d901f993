"""Functions that set the initial weights of layers."""

from pfrl_like.initializers.chainer_default import init_chainer_default
from pfrl_like.initializers.lecun_normal import init_lecun_normal
from pfrl_like.initializers.orthogonal import init_orthogonal

__all__ = ["init_chainer_default", "init_lecun_normal", "init_orthogonal"]
