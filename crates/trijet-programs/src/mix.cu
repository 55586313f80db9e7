// A hash of a word (the finaliser of MurmurHash3 with the constants of E. Wellons' lowbias32).
DEV u32 mix(u32 x) { x ^= x >> 16; x *= 0x7feb352du; x ^= x >> 15; x *= 0x846ca68bu; return x ^ x >> 16; }

