"""tutelage: train agents that generalise by letting two teachers choose what they practise on."""

__version__ = "0.1.0"
