def lose_power(*a):
    raise NotImplementedError
