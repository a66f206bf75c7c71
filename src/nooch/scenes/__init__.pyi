# listed once: the package reads this file
from .generator import (
    ScenesPlan as ScenesPlan,
    generate as generate,
)
from .world import World as World, default_text as default_text, load_world as load_world
