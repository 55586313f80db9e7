// The patches: device functions that the Sanitizer API calls before each access of global memory. They set a bit
// for each granule of 256 bytes that a launch reads or writes. `table.rs` reads the bits.
//
// The `userdata` of each call is the address of the table, which is a multiple of 4096, plus the number of the launch.
//
// The ABI of patches leaves about 14 registers, so the common path has few live values.

typedef unsigned int u32;
typedef unsigned long long u64;
typedef int PatchResult;  // 0: the kernel goes on

#define DEVICE static __device__ __forceinline__
#define PATCH extern "C" __device__ __noinline__ PatchResult

// The layout, as in `table.rs`.
#define GRANULE_LOG2 8
#define CHUNK_LOG2 9               // granules of a chunk
#define SLOTS (1u << 18)
#define MASK (2 * SLOTS - 1)       // of the entries of the hash table
#define WORDS_OF_SLOT 32           // 16 words of reads, 16 words of writes
#define HEADER_BYTES 8192
#define FULL_AT 1024               // a byte for each launch: whether accesses of it are missing
#define INSERTING 0xfffffu         // the slot of an entry that is being inserted
#define MAPS_MAX 4096
#define MAP_TABLE 8192
#define MAP_BYTES 24

#define BITS_AT (HEADER_BYTES + u64(MASK + 1) * 8)
#define KEYS_AT (BITS_AT + u64(SLOTS + 1) * (WORDS_OF_SLOT * 4))
#define MAPS_AT (KEYS_AT + u64(SLOTS + 2) * 8)

struct Launch {
    u64 table;
    u32 number;
};

DEVICE u32 lane_id() {
    u32 lane;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}

struct Pair {
    u32 low, high;
};

// A plain load may find a stale line in the cache: an entry or a bit that seems missing is looked up again, or set
// again. Nothing is removed while a launch of the table runs.
DEVICE Pair load_pair(u64 at) {
    Pair pair;
    asm volatile("ld.global.v2.u32 {%0,%1}, [%2];" : "=r"(pair.low), "=r"(pair.high) : "l"(at));
    return pair;
}

DEVICE Pair load_fresh(u64 at) {
    u64 word;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(at) : "memory");
    Pair pair = {u32(word), u32(word >> 32)};
    return pair;
}

DEVICE u32 load(u64 at) {
    u32 word;
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(word) : "l"(at));
    return word;
}

DEVICE void store(u64 at, u64 word) { asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(at), "l"(word) : "memory"); }
DEVICE void store_byte(u64 at, u32 byte) { asm volatile("st.global.u8 [%0], %1;" ::"l"(at), "r"(byte) : "memory"); }

DEVICE u32 add(u64 at, u32 by) {
    u32 before;
    asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], %2;" : "=r"(before) : "l"(at), "r"(by) : "memory");
    return before;
}

DEVICE void set(u64 at, u32 bits) { asm volatile("red.relaxed.gpu.global.or.b32 [%0], %1;" ::"l"(at), "r"(bits) : "memory"); }

DEVICE u64 exchange(u64 at, u64 old, u64 with) {
    u64 before;
    asm volatile("atom.relaxed.gpu.global.cas.b64 %0, [%1], %2, %3;" : "=l"(before) : "l"(at), "l"(old), "l"(with) : "memory");
    return before;
}

DEVICE Launch launch_of(void *userdata) {
    const u64 word = u64(userdata);
    return {word & ~u64(0xfff), u32(word) & 0xfff};
}

DEVICE u32 hash(u32 chunk, u32 launch) {
    u32 mixed = chunk * 0x9E3779B1u + launch * 0x85EBCA6Bu;
    return mixed ^ (mixed >> 15);
}

DEVICE void set_bits(const Launch &of, u32 slot, u32 word, u32 bits, u32 mode) {
    u64 at = of.table + BITS_AT + u64(slot * WORDS_OF_SLOT + word) * 4;
    if (mode & 1)
        if (~load(at) & bits) set(at, bits);
    if (mode & 2)
        if (~load(at + 64) & bits) set(at + 64, bits);
}

// The slot of a chunk, or INSERTING if the cache does not have it.
DEVICE u32 find(const Launch &of, u32 chunk) {
    u32 place = hash(chunk, of.number);
    Pair entry = load_pair(of.table + HEADER_BYTES + u64(place & MASK) * 8);
    if (entry.high != chunk || (entry.low >> 20) != of.number) {
        entry = load_pair(of.table + HEADER_BYTES + u64((place + 1) & MASK) * 8);
        if (entry.high != chunk || (entry.low >> 20) != of.number) return INSERTING;
    }
    return entry.low & INSERTING;
}

// Finds or inserts a chunk. One lane of a warp at a time calls this, so it waits for other warps only.
DEVICE u32 insert(const Launch &of, u32 chunk) {
    u32 place = hash(chunk, of.number);
#pragma unroll 1
    for (int probe = 0; probe < 128; ++probe, ++place) {
        const u64 at = of.table + HEADER_BYTES + u64(place & MASK) * 8;
        const u64 key = (u64(chunk) << 32) | (of.number << 20);
        Pair entry = load_fresh(at);
        if (entry.low == 0) {
            const u64 before = exchange(at, 0, key | INSERTING);
            if (before == 0) {
                u32 slot = add(of.table, 1);
                if (slot >= SLOTS) {
                    slot = SLOTS;  // a slot that is never read
                    store_byte(of.table + FULL_AT + of.number, 1);
                } else {
                    store(of.table + KEYS_AT + u64(slot) * 8, key);
                }
                store(at, key | slot);
                return slot;
            }
            entry.low = u32(before);
            entry.high = u32(before >> 32);
        }
        if (entry.high == chunk && (entry.low >> 20) == of.number) {
#pragma unroll 1
            while ((entry.low & INSERTING) == INSERTING) entry = load_fresh(at);
            return entry.low & INSERTING;
        }
    }
    store_byte(of.table + FULL_AT + of.number, 1);
    return SLOTS;
}

// Marks the granule of an address, in each lane its own. `userdata` and `mode` are the same in all lanes.
DEVICE void mark(void *userdata, u64 address, u32 mode) {
    if (userdata == 0 || mode == 0) return;
    const u32 active = __activemask();
    const Launch of = launch_of(userdata);
    const u64 granule = address >> GRANULE_LOG2;
    // The first lane of each granule. Lanes far from each other may mark the same one, which costs less than to compare
    // all lanes with all.
    const u32 lane = lane_id();
    const u64 before = __shfl_up_sync(active, granule, 1);
    const bool follows = lane != 0 && (active >> (lane - 1) & 1) && before == granule;
    const bool leads = !follows;
    const u32 chunk = u32(granule >> CHUNK_LOG2);
    const u32 bit = u32(granule) & ((1u << CHUNK_LOG2) - 1);
    bool is_new = false;
    if (leads) {
        const u32 slot = find(of, chunk);
        is_new = slot == INSERTING;
        if (!is_new) set_bits(of, slot, bit >> 5, 1u << (bit & 31), mode);
    }
    u32 rest = __ballot_sync(active, is_new);
#pragma unroll 1
    while (rest) {
        const u32 first = __ffs(rest) - 1;
        u32 slot = 0;
        if (lane == first) slot = insert(of, chunk);
        slot = __shfl_sync(active, slot, first);
        const u32 inserted = __shfl_sync(active, chunk, first);
        if (is_new && chunk == inserted) {
            set_bits(of, slot, bit >> 5, 1u << (bit & 31), mode);
            is_new = false;
        }
        rest = __ballot_sync(active, is_new);
    }
}

// Marks a range that is the same in all lanes.
DEVICE void mark_range(void *userdata, u64 address, u32 bytes, u32 mode) {
    if (userdata == 0 || bytes == 0) return;
    const u32 active = __activemask();
    if (lane_id() == u32(__ffs(active) - 1)) {
        const Launch of = launch_of(userdata);
        u64 granule = address >> GRANULE_LOG2;
        u32 left = u32(((address + bytes - 1) >> GRANULE_LOG2) - granule) + 1;
        while (left) {
            const u32 chunk = u32(granule >> CHUNK_LOG2);
            u32 slot = find(of, chunk);
            if (slot == INSERTING) slot = insert(of, chunk);
            const u32 bit = u32(granule) & ((1u << CHUNK_LOG2) - 1);
            u32 count = 32 - (bit & 31);
            if (count > left) count = left;
            set_bits(of, slot, bit >> 5, (0xffffffffu >> (32 - count)) << (bit & 31), mode);
            granule += count;
            left -= count;
        }
    }
    __syncwarp(active);
}

// Notes a tensor map, with the first word of it, which is the address of the tensor. Once for each launch and mode.
DEVICE void mark_map(void *userdata, u64 map, u32 mode) {
    if (userdata == 0) return;
    const u32 active = __activemask();
    if (lane_id() == u32(__ffs(active) - 1)) {
        const Launch of = launch_of(userdata);
        const u64 table = of.table + MAPS_AT;
        const u64 key = (u64(of.number) << 52) | (u64(mode) << 50) | (map & ((1ull << 50) - 1));
        u32 place = hash(u32(map >> 6), of.number * 4 + mode);
        bool is_noted = false;
#pragma unroll 1
        for (int probe = 0; probe < 32; ++probe, ++place) {
            const u64 at = table + u64(place & (MAP_TABLE - 1)) * 8;
            Pair pair = load_pair(at);
            u64 entry = (u64(pair.high) << 32) | pair.low;
            if (entry == 0) {
                entry = exchange(at, 0, key);
                if (entry == 0) {
                    const u32 number = add(of.table + 4, 1);
                    if (number < MAPS_MAX) {
                        const u64 to = table + MAP_TABLE * 8 + u64(number) * MAP_BYTES;
                        store(to, key);
                        store(to + 8, *(volatile u64 *)map);
                        store(to + 16, *(volatile u64 *)(map + 8));
                    } else {
                        store_byte(of.table + FULL_AT + of.number, 1);
                    }
                    is_noted = true;
                    break;
                }
            }
            if (entry == key) {
                is_noted = true;
                break;
            }
        }
        if (!is_noted) store_byte(of.table + FULL_AT + of.number, 1);
    }
    __syncwarp(active);
}

// The flags of an access: 1 reads, 2 writes, both for an atomic; 8 is a prefetch, which reads nothing.
DEVICE u32 mode_of(u32 flags) { return (flags & 8) ? 0 : (flags & 3); }

PATCH trijet_access(void *userdata, u64, void *address, u32, u32 flags, const void *) {
    mark(userdata, u64(address), mode_of(flags));
    return 0;
}

// A copy to shared memory by each thread. A lane that reads nothing has a null pointer, and stays with its warp: it
// marks a granule that the reader leaves out. Version 13.5 passes one number more, which is at the end.
PATCH trijet_copy(void *userdata, u64, void *from, u32, u32, u32) {
    mark(userdata, u64(from), 1);
    return 0;
}

// Bulk copies, whose size is the low 16 bits, in units of 16 bytes.
PATCH trijet_bulk_load(void *userdata, u64, u64 from, u32, u32, u32 size, u32) {
    mark_range(userdata, from, (size & 0xffff) * 16, 1);
    return 0;
}

PATCH trijet_bulk_store(void *userdata, u64, u64 to, u32, u32 size, u32) {
    mark_range(userdata, to, (size & 0xffff) * 16, 2);
    return 0;
}

PATCH trijet_bulk_reduction(void *userdata, u64, u64 to, u32, u32 size) {
    mark_range(userdata, to, (size & 0xffff) * 16, 3);
    return 0;
}

PATCH trijet_map_load(void *userdata, u64, u64 map, u32, u32, int, int, int, int, int, u32, u32, u32, u32) {
    mark_map(userdata, map, 1);
    return 0;
}

PATCH trijet_map_store(void *userdata, u64, u64 map) {
    mark_map(userdata, map, 2);
    return 0;
}
