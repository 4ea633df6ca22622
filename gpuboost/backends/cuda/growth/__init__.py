"""Growing a batch of trees: its levels, the node buffer, finished trees and memory."""
