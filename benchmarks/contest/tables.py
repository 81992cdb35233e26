def publish(*a): pass
