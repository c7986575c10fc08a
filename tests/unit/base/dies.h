/*
 * dies.h - whether something aborts, tried in a child so that the test goes on.
 */
#ifndef HOLDFAST_TEST_DIES_H
#define HOLDFAST_TEST_DIES_H

#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* True when act() ends its process with SIGABRT. What it says on stderr goes to `stderr_fd`. */
static inline bool
dies(void (*act)(void), int stderr_fd)
{
    pid_t child = fork();

    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
        dup2(stderr_fd, STDERR_FILENO);
        act();
        _exit(0);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        ;
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

#endif
