/* A program that uses the SDK, and says whether it gained privileges and whether it is recorded. */
#include <iotrail.h>
#include <stdio.h>
#include <sys/auxv.h>

int main(void) {
    printf("%s %s\n", getauxval(AT_SECURE) ? "privileged" : "plain", iotrail_init() ? "recorded" : "ignored");
    return 0;
}
