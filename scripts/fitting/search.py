"""Least squares between bounds, and which rows a fit may see."""
import zlib

from tool import package

np = package("numpy")
optimize = package("scipy.optimize")

LEFT_OUT = 0.3


def seen(keys):
    """True for the rows that a fit reads: seven in ten, drawn by a hash of the row's sizes, so that no order matters."""
    return np.array([zlib.crc32(repr(key).encode()) % 1000 >= 1000 * LEFT_OUT for key in keys])


def fit(formula, start, low, high, measured, weights=None, starts=4):
    """Parameters of least squared logarithms of told over measured (softened, so that a few odd rows do not lead)."""
    low, high = np.asarray(low, float), np.asarray(high, float)
    logs = np.log(measured)
    weights = 1 if weights is None else weights

    def inside(angles):
        return low + (high - low) * np.sin(angles) ** 2

    def residuals(angles):
        return weights * (np.log(np.maximum(formula(inside(angles)), 1e-9)) - logs)

    random = np.random.default_rng(1)
    best = None
    for i in range(starts):
        first = np.asarray(start, float) if i == 0 else low + (high - low) * random.random(len(low)) ** 1.5
        share = np.clip((first - low) / np.where(high > low, high - low, 1), 1e-4, 1 - 1e-4)
        found = optimize.least_squares(residuals, np.arcsin(np.sqrt(share)), loss="soft_l1", f_scale=0.05,
                                       max_nfev=200, diff_step=1e-4)
        if best is None or found.cost < best.cost:
            best = found
    return inside(best.x)


def errors(told, measured):
    return np.abs(told / measured - 1)
