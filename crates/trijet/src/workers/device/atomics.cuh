// Accesses of words that blocks share, with the scopes and orders of the PTX memory model. No header is needed.
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
#define DEV __device__ __forceinline__

DEV u32 lane_id() { u32 v; asm volatile("mov.u32 %0, %%laneid;" : "=r"(v)); return v; }
DEV u64 now_ns() { u64 v; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(v)); return v; }
DEV void nap(u32 ns) { asm volatile("nanosleep.u32 %0;" :: "r"(ns)); }

DEV u32 load_relaxed(const u32* p) { u32 v; asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v; }
DEV u64 load_relaxed(const u64* p) { u64 v; asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory"); return v; }
DEV u32 load_acquire(const u32* p) { u32 v; asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v; }
DEV void store_relaxed(u32* p, u32 v) { asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" :: "l"(p), "r"(v) : "memory"); }
DEV void store_relaxed(u64* p, u64 v) { asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" :: "l"(p), "l"(v) : "memory"); }
DEV void store_release(u32* p, u32 v) { asm volatile("st.release.gpu.global.u32 [%0], %1;" :: "l"(p), "r"(v) : "memory"); }
DEV u32 add_relaxed(u32* p, u32 v) { u32 o; asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], %2;" : "=r"(o) : "l"(p), "r"(v) : "memory"); return o; }
DEV u64 add_relaxed(u64* p, u64 v) { u64 o; asm volatile("atom.relaxed.gpu.global.add.u64 %0, [%1], %2;" : "=l"(o) : "l"(p), "l"(v) : "memory"); return o; }
DEV u32 add_acq_rel(u32* p, u32 v) { u32 o; asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;" : "=r"(o) : "l"(p), "r"(v) : "memory"); return o; }
DEV u32 swap_if(u32* p, u32 is, u32 v) { u32 o; asm volatile("atom.acq_rel.gpu.global.cas.b32 %0, [%1], %2, %3;" : "=r"(o) : "l"(p), "r"(is), "r"(v) : "memory"); return o; }
DEV u64 swap_if(u64* p, u64 is, u64 v) { u64 o; asm volatile("atom.acq_rel.gpu.global.cas.b64 %0, [%1], %2, %3;" : "=l"(o) : "l"(p), "l"(is), "l"(v) : "memory"); return o; }
DEV void fence_release() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
DEV void fence() { asm volatile("fence.sc.gpu;" ::: "memory"); }

// Words in the memory of the host.
DEV u32 load_acquire_host(const u32* p) { u32 v; asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v; }
DEV void store_release_host(u32* p, u32 v) { asm volatile("st.release.sys.global.u32 [%0], %1;" :: "l"(p), "r"(v) : "memory"); }
DEV u64 load_acquire_host(const u64* p) { u64 v; asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory"); return v; }
