"""How engines are reached: runtimes that start them, and the client that talks to them."""
