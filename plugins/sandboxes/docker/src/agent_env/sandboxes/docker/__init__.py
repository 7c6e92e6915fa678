"""Envs as containers of a Docker engine, local or remote. See the README of this distribution."""
