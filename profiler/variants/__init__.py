"""Ways to run a model: conversion in place, with proof of what it changed. `convert.convert` is the entry."""
