"""The classes of the package, without those that tests define: any file may run before, in the same process."""


def own_classes(base):
    """Every class of the package that is made of `base`, by its full name, as far as their modules are imported."""
    found, left = {}, [base]
    while left:
        left += (made := left.pop()).__subclasses__()
        if made is not base and made.__module__.startswith("simulator."):
            found[made.__module__, made.__qualname__] = made
    return [found[name] for name in sorted(found)]
