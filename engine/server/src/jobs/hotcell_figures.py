"""Backend of matplotlib: figures that are shown, or are open at the end, become files below outputs."""
import atexit
import os

from matplotlib._pylab_helpers import Gcf
from matplotlib.backend_bases import FigureManagerBase as FigureManager
from matplotlib.backends.backend_agg import FigureCanvasAgg as FigureCanvas

MAX_FIGURES = 20
_folder = os.path.join(os.path.expanduser("~"), "outputs")
_count = 0


def show(*_, **__):
    """Writes the open figures, and closes them."""
    global _count
    for manager in Gcf.get_all_fig_managers():
        _count += 1
        if _count <= MAX_FIGURES:
            os.makedirs(_folder, exist_ok=True)
            manager.canvas.figure.savefig(os.path.join(_folder, "figure-%d.png" % _count))
    Gcf.destroy_all()


atexit.register(show)
