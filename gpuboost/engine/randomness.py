"""Counter-based random numbers, the source of all randomness in the library.

A number is a hash of *its use* (seed, purpose, tree, node or row, index), so it does not depend on
the order of the work, on threads or on the device. The hash is the finaliser of SplitMix64 (Steele,
Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014).

The functions are branch-free over ``uint64``: NumPy passes arrays (scalars would warn on
wrap-around), the Numba backend compiles this module, and ``kernels/common/common.cuh`` holds a copy
that tests compare with this module.
"""

import numpy as np

# Purposes, the second word of `stream_key`: growing a tree, drawing rows with and without
# replacement, drawing the features of a tree, rounding weights, rounding gradients and hessians,
# permuting the values of a feature.
GROW, DRAW_ROWS, KEEP_ROWS, KEEP_FEATURES, ROUND_WEIGHT, ROUND_GRADIENT = 1, 2, 3, 4, 5, 6
PERMUTE_ROWS = 7

_STEP = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio: spreads consecutive counters
_MULTIPLY_1 = np.uint64(0xBF58476D1CE4E5B9)
_MULTIPLY_2 = np.uint64(0x94D049BB133111EB)
_TURN_LEFT = np.uint64(0x8EBC6AF09C88C6E3)
_TURN_RIGHT = np.uint64(0x589965CC75374CC3)
_THRESHOLD = np.uint64(0x1D8E4E27C47D124F)
_CATEGORY = np.uint64(0xEB44ACCAB455D165)
_MISSING = np.uint64(0xC2B2AE3D27D4EB4F)
_LEVEL = np.uint64(0xA0761D6478BD642F)
_HIGH_HALF = np.uint64(0xFFFFFFFF00000000)
_LOW_HALF = np.uint64(0x00000000FFFFFFFF)
_ONE = np.uint64(1)
_S11, _S27, _S30, _S31, _S32 = (np.uint64(s) for s in (11, 27, 30, 31, 32))


def mix(word):
    """Finaliser of SplitMix64: a bijection of 64-bit words that scatters every bit."""
    word = (word ^ (word >> _S30)) * _MULTIPLY_1
    word = (word ^ (word >> _S27)) * _MULTIPLY_2
    return word ^ (word >> _S31)


def hash_index(key, index):
    """The ``index``-th random word of ``key``."""
    return mix(key + (index + _ONE) * _STEP)


def uniform(word):
    """A random word as a float64 in [0, 1), a multiple of 2**-53."""
    return np.float64(word >> _S11) * 1.1102230246251565e-16


def multiply_high(a, b):
    """High 64 bits of the 128-bit product: scales a random word ``a`` to an integer in [0, b)."""
    a_high, a_low = a >> _S32, a & _LOW_HALF
    b_high, b_low = b >> _S32, b & _LOW_HALF
    middle = a_high * b_low + ((a_low * b_low) >> _S32)
    middle_2 = a_low * b_high + (middle & _LOW_HALF)
    return a_high * b_high + (middle >> _S32) + (middle_2 >> _S32)


def left_key(key):
    """Key of a node's left child. A node's key hashes the path from the root to the node."""
    return mix(key ^ _TURN_LEFT)


def right_key(key):
    """Key of a node's right child."""
    return mix(key ^ _TURN_RIGHT)


def feature_rank(key, feature):
    """Sort key of ``feature`` in the order in which the node with this key considers features.

    Smaller ranks come first. The low half is the feature itself, so ranks of a node never tie.
    """
    return (hash_index(key, feature) & _HIGH_HALF) | feature


def level_key(root_key, depth):
    """Key that draws the features of a level: those with the smallest `feature_rank`."""
    return hash_index(root_key ^ _LEVEL, depth)


def threshold_draw(key, feature):
    """Uniform number in [0, 1) for the random threshold of ``feature`` in a node."""
    return uniform(hash_index(key ^ _THRESHOLD, feature))


def missing_goes_left(key, feature):
    """1 if a random split by ``feature`` sends missing values left, else 0 (uint64)."""
    return hash_index(key ^ _MISSING, feature) & _ONE


def category_goes_left(key, feature, code):
    """1 if a random split of a categorical ``feature`` sends ``code`` left, else 0 (uint64)."""
    return hash_index(hash_index(key ^ _CATEGORY, feature), code) & _ONE


def stream_key(seed, purpose, index):
    """Key of a stream of random words, as uint64 (1,); ``index`` is usually the tree's number.

    An array of seeds or indices gives an array of keys.
    """
    words = np.array(seed, dtype=np.uint64, ndmin=1)
    for part in (purpose, index):
        words = hash_index(words, np.array(part, dtype=np.uint64, ndmin=1))
    return words
