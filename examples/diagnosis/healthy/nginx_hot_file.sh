# nginx that serves one hot file.
# prepare: yes
if [ "$1" = prepare ]; then
mkdir -p site logs
head -c 20000 /dev/urandom > site/page
cat > nginx.conf <<END
daemon off;
pid nginx.pid;
error_log stderr;
user root;
events {}
http {
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    server { listen unix:nginx.sock; root site; }
}
END
cat > load.py <<END
import socket, time
for _ in range(300):
    try:
        client = socket.socket(socket.AF_UNIX)
        client.connect("nginx.sock")
        break
    except OSError:
        time.sleep(0.01)
for _ in range(3000):
    client.sendall(b"GET /page HTTP/1.1\\r\\nHost: here\\r\\n\\r\\n")
    left = 20000
    head = b""
    while b"\\r\\n\\r\\n" not in head:
        head += client.recv(65536)
    left -= len(head.partition(b"\\r\\n\\r\\n")[2])
    while left:
        left -= len(client.recv(65536))
    if b"close" in head:
        client.close()
        client = socket.socket(socket.AF_UNIX)
        client.connect("nginx.sock")
END
    exit
fi
nginx -p "$PWD" -c nginx.conf &
server=$!
python3 load.py
kill -QUIT $server
wait $server
