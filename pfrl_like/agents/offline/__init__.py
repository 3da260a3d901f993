"""Agents of offline algorithms, one file a family; `pfrl_like.agents` offers them all."""
