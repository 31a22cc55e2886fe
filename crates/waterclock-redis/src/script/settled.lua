
redis.call('SET', RESERVATION, settled, 'KEEPTTL')
