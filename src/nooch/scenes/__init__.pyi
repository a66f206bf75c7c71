# listed once: the package reads this file
from .generator import (
    ScenesPlan as ScenesPlan,
    generate as generate,
)
from .truth_scores import find_score as find_score
from .world import World as World, default_text as default_text, load_world as load_world
