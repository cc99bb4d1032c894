"""What stacks layers. Presets are listed in ``presets`` and built by ``registry``."""
