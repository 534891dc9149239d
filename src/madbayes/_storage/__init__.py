"""Models in files: `save` and `load`, without pickle."""
