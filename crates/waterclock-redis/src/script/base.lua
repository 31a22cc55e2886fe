
-- What every script about policies goes on with. Integers only, each below 2^53; time in microseconds.

local EXACT = 9007199254740992 -- 2^53
local NOT_OURS = 'WATERCLOCK a record that is not ours'
local call, fmod, min, max = redis.call, math.fmod, math.min, math.max
local pack, unpack_at, sub = struct.pack, struct.unpack, string.sub

local cursor, keys = 2, 0
local function text() cursor = cursor + 1 return ARGV[cursor] end
-- Until when what is charged is held, if it is.
local held_until
-- How it is given back when its time is over (`due.lua`): what was reserved with release, as settling would; a check
-- that nobody stands by is undone, and so is a reservation without release (`k`) that nobody finished.
local RELEASE, UNDO = 'r', 'u'
-- What `due.lua` is asked to note of what is charged, and what it does, in the scripts that have it.
local holding, give_back_due, hold_due, write_due

-- A counter after n more: attempts count up to twice the limit, and what was counted under a higher
-- limit stays.
local function count_up(count, n, limit) return min(count + n, max(count, 2 * limit)) end
-- A counter after a debit: remembered for what it is, up to the largest exact number.
local function count_debit(count, n) return min(count + n, EXACT - 1) end
local function window_end(per) return now - fmod(now, per) + per end

-- An algorithm: `numbers` of the limit, `read` and `write` of its state, `arrive` brings the state to
-- now (true if it had to be re-dated because the clock stepped back), `room` how many units fit,
-- `charge`, `refund`, and `reset`, the time until it is as good as fresh. Where units are settled later:
-- `debit`, `give_back` of units that were held, and for a charge that may be undone `mark`, and `undo` of
-- what it still contributes.
-- Tables are made with all their fields at once: to add them one by one makes a table grow, which takes longer.
local algorithms = {}
