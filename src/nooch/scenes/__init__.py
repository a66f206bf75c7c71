"""Generated scenes whose context is known: images drawn from a world, stored with the truth."""

from nooch.scenes.generator import SCENES_MARKER, ScenesPlan, generate
from nooch.scenes.world import World, default_text, load_world

__all__ = ["SCENES_MARKER", "ScenesPlan", "World", "default_text", "generate", "load_world"]
