// Asks 200,003 times for an extended attribute that no file has.
// cause: failing_calls
// where: photo.jpg
#include <fcntl.h>
#include <sys/xattr.h>
#include <unistd.h>

int main(void) {
    char value[64];
    close(open("photo.jpg", O_WRONLY | O_CREAT, 0644));
    for (int i = 0; i < 200003; i++) getxattr("photo.jpg", "user.label", value, sizeof value);
}
