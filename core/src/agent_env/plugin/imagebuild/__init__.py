"""What providers that build images from an env's folder share: the build context, our core in it, how to start it."""
