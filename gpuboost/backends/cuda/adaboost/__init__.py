"""AdaBoost on the device: row weights, rows of trees and rounds."""
