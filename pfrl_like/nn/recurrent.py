"""`Recurrent`, the interface of recurrent modules, at its public place."""

from pfrl_like.utils.recurrent import Recurrent as Recurrent
