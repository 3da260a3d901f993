"""Offline agents, one file per family; `pfrl_like.agents` exports all of them."""
