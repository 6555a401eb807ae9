"""The schema tracker."""
