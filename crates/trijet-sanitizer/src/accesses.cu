// The patches: device functions that the Sanitizer API calls before each access of global memory. They set a bit
// for each granule of 256 bytes that a launch reads or writes. `table.rs` reads the bits.
//
// The table is one allocation. A launch has a descriptor of 16 bytes in it, whose address is the `userdata` of each
// call: the base of the allocation, the number of the launch, and the mask of the hash table.
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
#define WORDS_OF_SLOT 32           // 16 words of reads, 16 words of writes
#define HEADER_BYTES 8192
#define FULL_AT 1024               // a byte for each launch: whether accesses of it are missing
#define INSERTING 0xfffffu         // the slot of an entry that is being inserted
#define MAPS_AT 32                 // words of the header
#define MAPS_MAX 4096
#define MAP_TABLE 8192
#define MAP_BYTES 24

struct Descriptor {
    u64 base;
    u32 launch;
    u32 mask;
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

DEVICE Descriptor descriptor(void *userdata) {
    Descriptor one;
    asm volatile("{ .reg .b64 t; ld.global.v2.b64 {%0, t}, [%3]; mov.b64 {%1, %2}, t; }"
                 : "=l"(one.base), "=r"(one.launch), "=r"(one.mask)
                 : "l"(userdata));
    return one;
}

DEVICE u32 slots(u32 mask) { return (mask + 1) / 2; }
DEVICE u64 bits_at(u32 mask) { return HEADER_BYTES + (u64(mask) + 1) * 8; }
DEVICE u64 keys_at(u32 mask) { return bits_at(mask) + u64(slots(mask) + 1) * (WORDS_OF_SLOT * 4); }
DEVICE u64 maps_at(u32 mask) { return keys_at(mask) + u64(slots(mask) + 2) * 8; }

DEVICE u32 hash(u32 chunk, u32 launch) {
    u32 mixed = chunk * 0x9E3779B1u + launch * 0x85EBCA6Bu;
    return mixed ^ (mixed >> 15);
}

DEVICE void set_bits(const Descriptor &of, u32 slot, u32 word, u32 bits, u32 mode) {
    u64 at = of.base + bits_at(of.mask) + u64(slot * WORDS_OF_SLOT + word) * 4;
    if (mode & 1)
        if (~load(at) & bits) set(at, bits);
    if (mode & 2)
        if (~load(at + 64) & bits) set(at + 64, bits);
}

// The slot of a chunk, or INSERTING if the cache does not have it.
DEVICE u32 find(const Descriptor &of, u32 chunk) {
    u32 place = hash(chunk, of.launch);
    Pair entry = load_pair(of.base + HEADER_BYTES + u64(place & of.mask) * 8);
    if (entry.high != chunk || (entry.low >> 20) != of.launch) {
        entry = load_pair(of.base + HEADER_BYTES + u64((place + 1) & of.mask) * 8);
        if (entry.high != chunk || (entry.low >> 20) != of.launch) return INSERTING;
    }
    return entry.low & INSERTING;
}

// Finds or inserts a chunk. One lane of a warp at a time calls this, so it waits for other warps only.
DEVICE u32 insert(const Descriptor &of, u32 chunk) {
    u32 place = hash(chunk, of.launch);
#pragma unroll 1
    for (int probe = 0; probe < 128; ++probe, ++place) {
        const u64 at = of.base + HEADER_BYTES + u64(place & of.mask) * 8;
        const u64 key = (u64(chunk) << 32) | (of.launch << 20);
        Pair entry = load_fresh(at);
        if (entry.low == 0) {
            const u64 before = exchange(at, 0, key | INSERTING);
            if (before == 0) {
                u32 slot = add(of.base, 1);
                if (slot >= slots(of.mask)) {
                    slot = slots(of.mask);  // a slot that is never read
                    store_byte(of.base + FULL_AT + of.launch, 1);
                } else {
                    store(of.base + keys_at(of.mask) + u64(slot) * 8, key);
                }
                store(at, key | slot);
                return slot;
            }
            entry.low = u32(before);
            entry.high = u32(before >> 32);
        }
        if (entry.high == chunk && (entry.low >> 20) == of.launch) {
#pragma unroll 1
            while ((entry.low & INSERTING) == INSERTING) entry = load_fresh(at);
            return entry.low & INSERTING;
        }
    }
    store_byte(of.base + FULL_AT + of.launch, 1);
    return slots(of.mask);
}

// Marks the granule of an address, in each lane its own. `userdata` and `mode` are the same in all lanes.
DEVICE void mark(void *userdata, u64 address, u32 mode) {
    if (userdata == 0 || mode == 0) return;
    const u32 active = __activemask();
    const Descriptor of = descriptor(userdata);
    const u64 granule = address >> GRANULE_LOG2;
    // One lane for each granule.
    const int first = __ffs(active) - 1;
    bool leads;
    if (__all_sync(active, granule == __shfl_sync(active, granule, first)))
        leads = lane_id() == u32(first);
    else
        leads = lane_id() == u32(__ffs(__match_any_sync(active, granule)) - 1);
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
        const u32 lane = __ffs(rest) - 1;
        rest &= rest - 1;
        if (lane_id() == lane) set_bits(of, insert(of, chunk), bit >> 5, 1u << (bit & 31), mode);
        __syncwarp(active);
    }
}

// Marks a range that is the same in all lanes.
DEVICE void mark_range(void *userdata, u64 address, u32 bytes, u32 mode) {
    if (userdata == 0 || bytes == 0) return;
    const u32 active = __activemask();
    if (lane_id() == u32(__ffs(active) - 1)) {
        const Descriptor of = descriptor(userdata);
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
        const Descriptor of = descriptor(userdata);
        const u64 table = of.base + maps_at(of.mask);
        const u64 key = (u64(of.launch) << 52) | (u64(mode) << 50) | (map & ((1ull << 50) - 1));
        u32 place = hash(u32(map >> 6), of.launch * 4 + mode);
        bool is_noted = false;
#pragma unroll 1
        for (int probe = 0; probe < 32; ++probe, ++place) {
            const u64 at = table + u64(place & (MAP_TABLE - 1)) * 8;
            Pair pair = load_pair(at);
            u64 entry = (u64(pair.high) << 32) | pair.low;
            if (entry == 0) {
                entry = exchange(at, 0, key);
                if (entry == 0) {
                    const u32 number = add(of.base + 4, 1);
                    if (number < MAPS_MAX) {
                        const u64 to = table + MAP_TABLE * 8 + u64(number) * MAP_BYTES;
                        store(to, key);
                        store(to + 8, *(volatile u64 *)map);
                        store(to + 16, *(volatile u64 *)(map + 8));
                    } else {
                        store_byte(of.base + FULL_AT + of.launch, 1);
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
        if (!is_noted) store_byte(of.base + FULL_AT + of.launch, 1);
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
