"""The mathematics of trees and ensembles, which all backends share."""
