// What mprotect does to page-locked memory of CUDA, and what it costs.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <csignal>
#include <sys/mman.h>
#include <sys/ucontext.h>
#include <unistd.h>
#include <errno.h>
#include <thread>
#include <atomic>
#include <vector>
static char* lo; static size_t len; static volatile int faults; static volatile long err; static volatile char* where;
static void handler(int, siginfo_t* info, void* ctx) {
  char* a = (char*)info->si_addr; err = ((ucontext_t*)ctx)->uc_mcontext.gregs[REG_ERR]; where = a;
  if (a < lo || a >= lo + len) { write(2, "foreign\n", 8); _exit(9); }
  faults = faults + 1; mprotect(lo, len, PROT_READ | PROT_WRITE);
}
static double now() { return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
__global__ void fill(unsigned* x, size_t n, unsigned v) { for (size_t i = blockIdx.x * 256ul + threadIdx.x; i < n; i += gridDim.x * 256ul) x[i] = v; }
__global__ void slow(long n) { long t = clock64(); while (clock64() - t < n); }
#define OK(x) do { auto e = (x); if (e) { printf("%s: %s\n", #x, cudaGetErrorString(e)); exit(1); } } while (0)
static void test(const char* name, char* host, size_t bytes) {
  unsigned* dev; OK(cudaMalloc(&dev, bytes)); cudaStream_t s; OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  printf("%s: address %p, %% 4096 = %zu\n", name, host, (size_t)host % 4096);
  lo = (char*)(((size_t)host + 4095) & ~4095ul); len = (((size_t)host + bytes) & ~4095ul) - (size_t)lo;
  memset(host, 1, bytes);
  // D2H under PROT_NONE
  fill<<<256, 256, 0, s>>>(dev, bytes / 4, 7); slow<<<1, 1, 0, s>>>(20000000);
  OK(cudaMemcpyAsync(host, dev, bytes, cudaMemcpyDeviceToHost, s));
  double t = now(); int r = mprotect(lo, len, PROT_NONE); double took = now() - t;
  printf("  none: %d %s, %.2f us", r, r ? strerror(errno) : "", took);
  faults = 0; OK(cudaStreamSynchronize(s));
  printf("; faults in sync %d", faults); unsigned v = *(volatile unsigned*)lo; printf("; after: value %u, faults %d, error code %ld\n", v, faults, err);
  // wrong bytes?
  size_t bad = 0; for (size_t i = 0; i < bytes / 4; ++i) bad += ((unsigned*)host)[i] != 7; printf("  wrong words %zu\n", bad);
  // H2D under PROT_READ
  memset(host, 3, bytes); slow<<<1, 1, 0, s>>>(20000000); OK(cudaMemcpyAsync(dev, host, bytes, cudaMemcpyHostToDevice, s));
  t = now(); r = mprotect(lo, len, PROT_READ); took = now() - t; faults = 0; v = *(volatile unsigned*)lo;
  printf("  read: %d, %.2f us, faults by reading %d", r, took, faults); *(volatile unsigned*)lo = 9; printf(", by writing %d (error code %ld)\n", faults, err);
  OK(cudaStreamSynchronize(s));
  // copy from and to protected memory, in order of the stream
  OK(cudaMemcpyAsync(host, dev, bytes, cudaMemcpyDeviceToHost, s)); mprotect(lo, len, PROT_NONE); faults = 0;
  OK(cudaMemcpyAsync(dev, host, bytes, cudaMemcpyHostToDevice, s)); OK(cudaMemcpyAsync(host, dev, bytes < 4096 ? bytes : 4096, cudaMemcpyDeviceToHost, s));
  OK(cudaMemcpyAsync(dev, host, bytes < 4096 ? bytes : 4096, cudaMemcpyHostToDevice, s));
  OK(cudaMemsetAsync(host, 0, bytes, s));
  OK(cudaStreamSynchronize(s)); printf("  faults in calls on protected memory %d\n", faults);
  mprotect(lo, len, PROT_NONE); faults = 0; int pipes[2]; pipe(pipes); write(pipes[1], "x", 1);
  ssize_t got = read(pipes[0], lo, 1); printf("  read(2) into it: %zd %s, faults %d\n", got, got < 0 ? strerror(errno) : "", faults);
  mprotect(lo, len, PROT_READ | PROT_WRITE);
  double best[2] = {1e9, 1e9};
  for (int i = 0; i < 20; ++i) { t = now(); mprotect(lo, len, PROT_NONE); double a = now(); mprotect(lo, len, PROT_READ | PROT_WRITE); double b = now(); if (a - t < best[0]) best[0] = a - t; if (b - a < best[1]) best[1] = b - a; }
  std::atomic<bool> stop{false}; std::vector<std::thread> ts; for (int i = 0; i < 12; ++i) ts.emplace_back([&] { volatile long x = 0; while (!stop) x = x + 1; });
  double busy[2] = {1e9, 1e9};
  for (int i = 0; i < 20; ++i) { t = now(); mprotect(lo, len, PROT_NONE); double a = now(); mprotect(lo, len, PROT_READ | PROT_WRITE); double b = now(); if (a - t < busy[0]) busy[0] = a - t; if (b - a < busy[1]) busy[1] = b - a; }
  stop = true; for (auto& x : ts) x.join();
  mprotect(lo, len, PROT_NONE); faults = 0; t = now(); *(volatile char*)lo = 1; double fault = now() - t;
  printf("  %zu bytes: none %.2f us, back %.2f us; beside 12 threads %.2f, %.2f us; a fault with unprotect %.2f us (%d)\n", bytes, best[0], best[1], busy[0], busy[1], fault, faults);
  OK(cudaFree(dev)); OK(cudaStreamDestroy(s));
}
static volatile unsigned seen; static char blocked[256];
static void CUDART_CB in_stream(void* p) {
  FILE* f = fopen("/proc/thread-self/status", "r"); char line[256]; while (f && fgets(line, 256, f)) if (!strncmp(line, "SigBlk", 6) || !strncmp(line, "Name", 4)) { strcat(blocked, line); }
  fclose(f); printf("host function: %s", blocked); fflush(stdout); seen = *(volatile unsigned*)p;
}
static void host_function() {
  char* p; OK(cudaMallocHost(&p, 1 << 20)); unsigned* dev; OK(cudaMalloc(&dev, 1 << 20)); cudaStream_t s; OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  OK(cudaMemset(dev, 5, 1 << 20)); OK(cudaMemcpyAsync(p, dev, 1 << 20, cudaMemcpyDeviceToHost, s)); lo = p; len = 1 << 20; mprotect(lo, len, PROT_NONE); faults = 0;
  OK(cudaLaunchHostFunc(s, in_stream, p)); OK(cudaStreamSynchronize(s)); printf("host function read %x, faults %d\n", seen, faults); fflush(stdout);
}
int main(int argc, char**) {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  struct sigaction a = {}; a.sa_sigaction = handler; a.sa_flags = SA_SIGINFO; sigaction(SIGSEGV, &a, nullptr); sigaction(SIGBUS, &a, nullptr);
  if (argc == 1) for (size_t bytes : {size_t(8192), size_t(1) << 20, size_t(64) << 20, size_t(1) << 30}) {
    char* p; OK(cudaMallocHost(&p, bytes)); test("cudaMallocHost", p, bytes); OK(cudaFreeHost(p));
    OK(cudaHostAlloc(&p, bytes, cudaHostAllocMapped | cudaHostAllocPortable | cudaHostAllocWriteCombined)); test("write-combined", p, bytes); OK(cudaFreeHost(p));
    p = (char*)malloc(bytes + 100); memset(p, 0, bytes); OK(cudaHostRegister(p, bytes, 0)); test("cudaHostRegister of malloc", p, bytes); OK(cudaHostUnregister(p)); free(p);
  }
  if (argc > 1) { struct sigaction b = {}; b.sa_sigaction = handler; b.sa_flags = SA_SIGINFO; sigaction(SIGSEGV, &b, nullptr); host_function(); return 0; }
  char* small[4]; for (auto& p : small) { OK(cudaMallocHost(&p, 100)); printf("small %p\n", p); }
  // a whole VMA line
  FILE* f = fopen("/proc/self/maps", "r"); char line[512]; while (fgets(line, 512, f)) { unsigned long s, e; sscanf(line, "%lx-%lx", &s, &e); if ((unsigned long)small[0] >= s && (unsigned long)small[0] < e) printf("%s", line); }
}
