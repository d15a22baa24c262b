/* host_names.c: a preloaded library that gives a host name other addresses.
 * HOST_NAME=name=127.0.0.1,127.0.0.2 lists them; every process may have its
 * own, as on machines with different /etc/hosts. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

typedef int Lookup(const char *, const char *, const struct addrinfo *,
                   struct addrinfo **);

int getaddrinfo(const char *host, const char *service,
                const struct addrinfo *hints, struct addrinfo **found)
{
    Lookup *look_up;
    *(void **)&look_up = dlsym(RTLD_NEXT, "getaddrinfo");
    const char *entry = getenv("HOST_NAME");
    size_t n = strlen(host);
    if (!entry || strncmp(entry, host, n) != 0 || entry[n] != '=' ||
        (hints && hints->ai_flags & AI_NUMERICHOST))
        return look_up(host, service, hints, found);
    char *list = strdup(entry + n + 1), *rest;
    int status = EAI_NONAME;
    for (char *at = strtok_r(list, ",", &rest); at;
         at = strtok_r(NULL, ",", &rest)) {
        status = look_up(at, service, hints, found);
        if (status)
            break;
        while (*found)
            found = &(*found)->ai_next;
    }
    free(list);
    return status;
}
