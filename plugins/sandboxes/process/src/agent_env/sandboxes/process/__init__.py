"""Envs as local processes: the provider that comes with the server. See the README of this distribution."""
