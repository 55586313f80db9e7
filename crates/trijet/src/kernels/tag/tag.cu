// tag: the first and the last word of a block have the tag of its owner, which the owner's first kernel (`tag_u32`) writes.
// The others (`has_tag_u32`) compare it. A kernel that finds another tag counts that: another owner wrote the memory.
//
// One thread works, and the kernel lasts at least `ns`. The words are read and written past the caches of the
// multiprocessor, since the question is what memory has.
typedef unsigned int u32;
typedef unsigned long long u64;

__device__ __forceinline__ u64 now() {
  u64 ns;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
  return ns;
}

__device__ __forceinline__ u32 differs(volatile const u32* block, u64 len, u32 tag) {
  return block[0] != tag || block[len - 1] != tag;
}

// Whether the words have another tag at the end of `ns` from `begin` on.
__device__ __forceinline__ u32 differs_after(u64 begin, u32 ns, volatile const u32* block, u64 len, u32 tag) {
  while (now() - begin < ns) {
  }
  return differs(block, len, tag);
}

extern "C" __global__ void tag_u32(u32 tag, u32 ns, u32* errors, u64 errors_len, u32* block, u64 len) {
  if ((blockIdx.x | threadIdx.x) != 0 || len == 0 || errors_len == 0) return;
  const u64 begin = now();
  volatile u32* words = block;
  words[0] = tag;
  words[len - 1] = tag;
  errors[0] += differs_after(begin, ns, block, len, tag);
}

extern "C" __global__ void has_tag_u32(u32 tag, u32 ns, u32* errors, u64 errors_len, u32* block, u64 len) {
  if ((blockIdx.x | threadIdx.x) != 0 || len == 0 || errors_len == 0) return;
  const u64 begin = now();
  const u32 wrong = differs(block, len, tag);
  errors[0] += wrong | differs_after(begin, ns, block, len, tag);
}
