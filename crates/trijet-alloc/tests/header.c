/* Calls every function of the header on the host device, whose memory is memory of the process. */
#include "trijet_alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEMAND(holds)                                                                     \
    do {                                                                                  \
        if (!(holds)) {                                                                   \
            const char *why = trijet_alloc_last_error();                                  \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #holds, why ? why : "no error"); \
            exit(1);                                                                      \
        }                                                                                 \
    } while (0)

#define HOST TRIJET_HOST_DEVICE

static int said(const char *word) {
    const char *why = trijet_alloc_last_error();
    return why != NULL && strstr(why, word) != NULL;
}

static uint64_t live(void) {
    struct trijet_alloc_statistics found;
    DEMAND(trijet_alloc_stats(HOST, &found) == 0);
    DEMAND(found.live <= found.live_high && found.live_high <= found.reserved_high);
    return found.live;
}

static void refuses_bad_input(void) {
    void *x = trijet_alloc(1000, HOST, 0);
    uint64_t before = live();
    char place = 0;
    DEMAND(trijet_alloc(0, HOST, 0) == NULL && said("0 bytes"));
    DEMAND(trijet_alloc(SIZE_MAX, HOST, 0) == NULL && said("18446744073709551615"));
    DEMAND(trijet_alloc((size_t)1 << 62, HOST, 0) == NULL && said("asked for"));
    DEMAND(trijet_alloc(1, -2, 0) == NULL && said("-2"));
    DEMAND(trijet_alloc(1, 1000, 0) == NULL && said("1000"));
    DEMAND(trijet_alloc(1, HOST, (cudaStream_t)(size_t)0x77777777) == NULL);
    trijet_free(x, 999, HOST, 0);
    DEMAND(said("not 999"));
    trijet_free(&place, 1, HOST, 0);
    DEMAND(said("no live allocation"));
    trijet_free(x, 1000, 0, 0);
    DEMAND(said("device -1, not of device 0"));
    trijet_free(NULL, 0, HOST, 0);
    trijet_record_stream(&place, 0);
    DEMAND(said("no live allocation"));
    DEMAND(trijet_alloc_stats(HOST, NULL) == 1 && said("null"));
    DEMAND(live() == before);
    trijet_free(x, 1000, HOST, 0);
    DEMAND(live() == before - 1024);
    trijet_free(x, 1000, HOST, 0);
    DEMAND(said("freed before"));
    DEMAND(live() == before - 1024);
}

static void has_a_limit(void) {
    DEMAND(trijet_alloc_limit(1 << 20) == 0);
    DEMAND(trijet_alloc(2 << 20, HOST, 0) == NULL && said("alloc"));
    DEMAND(trijet_alloc_limit(0) == 0);
    void *x = trijet_alloc(2 << 20, HOST, 0);
    DEMAND(x != NULL);
    trijet_free(x, 2 << 20, HOST, 0);
}

/* The exit code of a child that calls the library. */
static int in_child(void) {
    int status = 0;
    pid_t child = fork();
    DEMAND(child >= 0);
    if (child == 0) {
        alarm(30);
        _exit(trijet_alloc(64, HOST, 0) == NULL && said("forked") ? 7 : 1);
    }
    DEMAND(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main(void) {
    struct trijet_alloc_statistics found;
    DEMAND(trijet_alloc_last_error() == NULL);
    DEMAND(trijet_alloc_stats(0, &found) == 0 && found.reserved == 0);
    void *x = trijet_alloc(1 << 20, HOST, 0);
    DEMAND(x != NULL && (size_t)x % 256 == 0);
    memset(x, 1, 1 << 20);
    void *y = trijet_alloc(1, HOST, 0);
    DEMAND(y != NULL && y != x && live() == (1 << 20) + 256);
    trijet_record_stream(x, 0);
    trijet_free(x, 1 << 20, HOST, 0);
    trijet_free(y, 1, HOST, 0);
    DEMAND(live() == 0 && trijet_alloc_last_error() == NULL);
    void *again = trijet_alloc(1 << 20, HOST, 0);
    DEMAND(again != NULL);
    trijet_free(again, 1 << 20, HOST, 0);
    refuses_bad_input();
    has_a_limit();
    DEMAND(in_child() == 7);
    DEMAND(trijet_forget_stream(HOST, 0) == 0);
    DEMAND(trijet_alloc(64, HOST, 0) != NULL);
    puts("all calls of the header");
    return 0;
}
