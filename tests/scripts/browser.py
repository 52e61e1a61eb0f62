"""Headless Chromium over the WebDriver protocol, with Python's standard library alone."""
import base64
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class Browser:
    """A window; downloads go to `folder`."""

    def __init__(self, folder):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.process = subprocess.Popen([DRIVER, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.root = f"http://127.0.0.1:{port}"
        options = {"binary": BROWSER, "args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage"],
                   "prefs": {"download.default_directory": folder}}
        wanted = {"capabilities": {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}}
        for _ in range(100):
            try:
                self.session = self.call("POST", "/session", wanted)["sessionId"]
                break
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.1)
        else:
            raise RuntimeError("chromedriver does not answer")

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.root + path, data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def post(self, path, **body):
        return self.call("POST", f"/session/{self.session}{path}", body)

    def open(self, path):
        self.post("/url", url=f"file://{path}")

    def run(self, script, *arguments):
        """What the script returns."""
        return self.post("/execute/sync", script=script, args=list(arguments))

    def find(self, selector):
        return self.post("/element", using="css selector", value=selector)[ELEMENT]

    def click(self, selector):
        self.post(f"/element/{self.find(selector)}/click")

    def type(self, selector, text):
        self.post(f"/element/{self.find(selector)}/value", text=text)

    def point_at(self, selector, x=0, y=0):
        """The pointer so many pixels from the element's middle."""
        where = {ELEMENT: self.find(selector)}
        self.post("/actions", actions=[{"type": "pointer", "id": "mouse", "actions": [{"type": "pointerMove", "origin": where, "x": int(x), "y": int(y), "duration": 0}]}])

    def size(self, width, height=1000):
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)

    def scheme(self, name):
        self.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def command(self, name, **parameters):
        return self.post("/goog/cdp/execute", cmd=name, params=parameters)

    def complaints(self):
        """What the page wrote into the console."""
        return [entry["message"] for entry in self.post("/se/log", type="browser")]

    def picture(self, path, scale=1.0):
        """Of the whole page, so much smaller."""
        height = self.run("return document.documentElement.scrollHeight")
        width = self.run("return document.documentElement.clientWidth")
        shot = self.command("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip={"x": 0, "y": 0, "width": width, "height": height, "scale": scale})
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def close(self):
        try:
            self.call("DELETE", f"/session/{self.session}")
        finally:
            self.process.terminate()
            self.process.wait()
