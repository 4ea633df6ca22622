"""The mathematics of trees and ensembles: what every backend computes, written once."""
