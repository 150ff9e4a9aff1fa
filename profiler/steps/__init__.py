"""Steps of people's own code, measured where they run: what decorators, callbacks and tests are made of."""
