"""Generated scenes whose context is known: a world says what scenes hold, images are drawn from it,
and the truth is kept.
"""

from nooch.scenes.scene_generator import SCENES_MARKER, ScenesPlan, generate
from nooch.scenes.scene_world import World, default_text, load_world

__all__ = ["SCENES_MARKER", "ScenesPlan", "World", "default_text", "generate", "load_world"]
