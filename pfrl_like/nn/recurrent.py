"""`Recurrent`, the interface of recurrent modules."""

from pfrl_like.utils.recurrent import Recurrent as Recurrent
