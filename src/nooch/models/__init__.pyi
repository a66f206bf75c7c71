# listed once: the package reads this file
from .backbones import load_backbone as load_backbone
from .caches.features import extract_features as extract_features, load_features as load_features
from .caches.pixels import PixelCache as PixelCache, build_pixels as build_pixels
from .images import Preprocessing as Preprocessing
from .segmenters import PredictedClasses as PredictedClasses
from .task_maps import read_task_map as read_task_map
from .task_models import load_task_model as load_task_model
