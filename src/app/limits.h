#ifndef APP_LIMITS_H
#define APP_LIMITS_H

/* How much this process may hold open at once. */
struct app_limits {
    int connections; /* of API clients */
    int concurrency; /* deliveries in flight */
};

/* Raise the soft limit of descriptors as far as allowed, and fit the wanted numbers into it: with a warning they shrink
 * when it is too small, so that running out of descriptors is never found out by a failed delivery. */
struct app_limits app_limits_fit(int concurrency);

#endif
