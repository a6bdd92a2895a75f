/* The program that keeps a pod's namespaces open. It is the pod's first process, so it must take over and reap
 * children that others left, and it must leave when asked: a process with number 1 ignores signals that it does not handle. */
#include <signal.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

static void leave(int signal_number) {
    (void)signal_number;
    _exit(0);
}

static void reap(int signal_number) {
    (void)signal_number;
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
}

static int on(int signal_number, void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler};
    if (signal_number == SIGCHLD) {
        action.sa_flags = SA_NOCLDSTOP;
    }
    return sigaction(signal_number, &action, NULL);
}

int main(void) {
    if (on(SIGTERM, leave) != 0 || on(SIGINT, leave) != 0 || on(SIGCHLD, reap) != 0) {
        return EXIT_FAILURE;
    }
    for (;;) {
        pause();
    }
}
