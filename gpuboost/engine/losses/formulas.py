"""Gradient, hessian and value of each loss, for one row and one column of raw predictions.

Every loss is a pair of functions of ``(y, raw, parameter)``, all float64:

``name(y, raw, parameter)``
    Gradient and hessian with respect to the raw prediction, for weight 1. Squared error and losses
    without a usable second derivative return 1.0 as hessian, so a row's hessian is its weight.
    Other hessians are raised where the Newton step of the row is too long (see `raised`).
``name_loss(y, raw, parameter)``
    The loss itself, up to a term that depends on y only; twice the function that ``name``
    differentiates for squared error and binary log loss.

For multiclass log loss, `softmax` takes the probability in place of the raw prediction, and
`softmax_loss` has its own arguments. The probabilities of a row are its `softmax_weight` values
divided by their sum over the classes in order.

`engine.losses.table` lists the losses. NumPy passes arrays, the Numba backend compiles this module,
and ``kernels/boosting/losses.cuh`` has a copy. No function divides by zero, and no exponential
overflows, for finite raw predictions.

References
----------
Friedman: Greedy function approximation: a gradient boosting machine, Annals of Statistics 29
(2001), algorithms 2 to 6.
Friedman, Hastie, Tibshirani: Additive logistic regression, Annals of Statistics 28 (2000),
algorithms 3 (LogitBoost) and 6 (K classes).
Koenker, Bassett: Regression quantiles, Econometrica 46 (1978), equation 2.1.
Jorgensen: The theory of dispersion models (1997), unit deviances of the Tweedie family.
Saleh, Saleh: Statistical properties of the log-cosh loss function used in machine learning,
arXiv:2208.04564 (2022). CatBoost has this loss under the name LogCosh.
"""

from gpuboost.engine.numerics import exp, log, select

MAX_RAW = 300.0  # bound on raw predictions before exp, which could overflow otherwise
# Bound on the Newton step of one row, chosen among 2, 4, 8, 16 and none. On synthetic tables of 18
# and 40 classes, whose smallest class has 4 rows, boosted trees of 31 leaves score 0.67 without a
# bound and 0.81 to 0.88 with any bound; forests score 0.83 and 0.88. If one of two classes has 0.5%
# of the rows, AUC rises from 0.74 to 0.82 (depth 3). For balanced classes, 8 changes AUC least.
MAX_STEP = 8.0
# Below this residual, tanh and log cosh use their series, since terms of the exact forms cancel.
SMALL_RESIDUAL = 2.0**-5


def inside(raw):
    """``raw`` clipped to [-MAX_RAW, MAX_RAW]."""
    return select(raw > MAX_RAW, MAX_RAW, select(raw < -MAX_RAW, -MAX_RAW, raw))


def raised(gradient, hessian):
    """Hessian, raised if necessary so that the Newton step of the row is at most `MAX_STEP`.

    A leaf's step is the mean of its rows' steps, weighted by hessian, so the leaf is bounded too.
    LogitBoost bounds the same quantity by clipping the gradient (Friedman, Hastie, Tibshirani 2000,
    section 4). Raising the hessian changes neither the gradient nor the minimum of the loss.
    """
    minimum = select(gradient < 0.0, -gradient, gradient) * (1.0 / MAX_STEP)
    return select(hessian > minimum, hessian, minimum)


def squared_error(y, raw, parameter):
    """Half the squared error (Friedman 2001, algorithm 2)."""
    return raw - y, 1.0


def squared_error_loss(y, raw, parameter):
    """The squared error, which is not halved."""
    difference = raw - y
    return difference * difference


def absolute_error(y, raw, parameter):
    """Absolute error (Friedman 2001, algorithm 3); its gradient is 0 where raw is y."""
    return select(raw > y, 1.0, select(raw < y, -1.0, 0.0)), 1.0


def absolute_error_loss(y, raw, parameter):
    """abs(raw - y)."""
    return select(raw > y, raw - y, y - raw)


def huber(y, raw, parameter):
    """Huber loss: quadratic up to ``parameter``, linear above (Friedman 2001, algorithm 4)."""
    difference = raw - y
    low = select(difference < -parameter, -parameter, difference)
    return select(low > parameter, parameter, low), 1.0


def huber_loss(y, raw, parameter):
    """Half the squared error for residuals up to ``parameter``, linear above."""
    size = select(raw > y, raw - y, y - raw)
    near = select(size > parameter, parameter, size)
    return near * (size - 0.5 * near)


def quantile(y, raw, parameter):
    """Pinball loss of quantile level ``parameter``; its gradient is 0 where raw is y."""
    return select(raw > y, 1.0 - parameter, select(raw < y, -parameter, 0.0)), 1.0


def quantile_loss(y, raw, parameter):
    """Pinball loss (Koenker and Bassett 1978)."""
    return select(raw > y, (1.0 - parameter) * (raw - y), parameter * (y - raw))


def log_cosh(y, raw, parameter):
    """log cosh(raw - y) (Saleh and Saleh 2022, equation 1): gradient tanh, hessian 1 - tanh**2.

    Let x be the absolute residual and e = exp(-2 x). Then tanh x = (1 - e) / (1 + e), and the
    hessian is 4 e / (1 + e)**2.
    """
    difference = raw - y
    size = select(difference < 0.0, -difference, difference)
    small = exp(-2.0 * inside(size))
    scale = 1.0 / (1.0 + small)
    x = select(size < SMALL_RESIDUAL, size, 0.0)
    z = x * x
    series = x * (1.0 - z * (1.0 / 3.0 - z * (2.0 / 15.0 - z * (17.0 / 315.0))))
    slope = select(size < SMALL_RESIDUAL, series, (1.0 - small) * scale)
    gradient = select(difference < 0.0, -slope, slope)
    return gradient, raised(gradient, 4.0 * small * scale * scale)


def log_cosh_loss(y, raw, parameter):
    """log cosh(raw - y): about x**2 / 2 for a small residual x, abs(x) - log 2 for a large one."""
    size = select(raw > y, raw - y, y - raw)
    x = select(size < SMALL_RESIDUAL, size, 0.0)
    z = x * x
    series = z * (0.5 - z * (1.0 / 12.0 - z * (1.0 / 45.0 - z * (17.0 / 2520.0))))
    exact = size + log(0.5 * (1.0 + exp(-2.0 * inside(size))))
    return select(size < SMALL_RESIDUAL, series, exact)


def poisson(y, raw, parameter):
    """Half the deviance of a count with mean exp(raw)."""
    mean = exp(inside(raw))
    gradient = mean - y
    return gradient, raised(gradient, mean)


def poisson_loss(y, raw, parameter):
    """exp(raw) - y raw: half the deviance without its terms that depend on y only."""
    raw = inside(raw)
    return exp(raw) - y * raw


def gamma(y, raw, parameter):
    """Half the deviance of a positive value with mean exp(raw)."""
    ratio = y * exp(-inside(raw))
    gradient = 1.0 - ratio
    return gradient, raised(gradient, ratio)


def gamma_loss(y, raw, parameter):
    """raw + y exp(-raw): half the deviance without its terms that depend on y only."""
    raw = inside(raw)
    return raw + y * exp(-raw)


def tweedie(y, raw, parameter):
    """Half the deviance for mean exp(raw) and variance mean**parameter, 1 < parameter < 2."""
    raw = inside(raw)
    above = exp((2.0 - parameter) * raw)
    below = y * exp((1.0 - parameter) * raw)
    gradient = above - below
    hessian = (2.0 - parameter) * above + (parameter - 1.0) * below
    return gradient, raised(gradient, hessian)


def tweedie_loss(y, raw, parameter):
    """Half the deviance without its term that depends on y only."""
    raw = inside(raw)
    above = exp((2.0 - parameter) * raw) / (2.0 - parameter)
    return above + y * exp((1.0 - parameter) * raw) / (parameter - 1.0)


def log_loss(y, raw, parameter):
    """Log loss of y in {0, 1} (Friedman, Hastie, Tibshirani 2000, algorithm 3)."""
    small = exp(select(raw > 0.0, -raw, raw))
    scale = 1.0 / (1.0 + small)
    one = select(raw > 0.0, 1.0, small)  # the probability of 1 is one * scale
    zero = select(raw > 0.0, small, 1.0)
    gradient = ((1.0 - y) * one - y * zero) * scale
    return gradient, raised(gradient, small * scale * scale)


def log_loss_loss(y, raw, parameter):
    """Binomial deviance, -2 log of the probability of y."""
    size = select(raw > 0.0, raw, -raw)
    wrong = select(raw > 0.0, 1.0 - y, y)
    return 2.0 * (wrong * size + log(1.0 + exp(-size)))


def sigmoid(raw):
    """Probability of class 1, 1 / (1 + exp(-raw))."""
    small = exp(select(raw > 0.0, -raw, raw))
    return select(raw > 0.0, 1.0, small) / (1.0 + small)


def softmax_weight(raw, largest):
    """Unnormalised probability of a class; ``largest`` is the row's largest raw prediction."""
    return exp(raw - largest)


def softmax(y, probability, parameter):
    """Log loss of a class with indicator y; ``parameter``: K / (K - 1) (Friedman 2001, alg. 6)."""
    gradient = probability - y
    return gradient, parameter * raised(gradient, probability * (1.0 - probability))


def softmax_loss(raw, largest, total):
    """Negative log probability of the row's class, whose raw prediction is ``raw``.

    ``largest`` is the row's largest raw prediction, ``total`` the sum of its `softmax_weight`.
    """
    return (largest - raw) + log(total)


def exponential(y, raw, parameter):
    """exp(-s raw), s = 2 y - 1, y in {0, 1} (Friedman, Hastie, Tibshirani 2000, section 4)."""
    sign = y + y - 1.0
    value = exp(-sign * inside(raw))
    return -sign * value, value


def exponential_loss(y, raw, parameter):
    """exp(-s raw)."""
    return exp(-(y + y - 1.0) * inside(raw))
