# The server with its toolchain. Build: docker build -t prime-lab-mcp .
# Run, as a client starts it:
#   docker run -i --rm --user "$(id -u):$(id -g)" -v "$PWD:/project" -v prime-lab-state:/state prime-lab-mcp
# No -t: a terminal would corrupt the protocol. docs/releasing.md says what was tried of this file.
FROM python:3.12-slim

COPY constraints.txt pyproject.toml README.md LICENSE /source/
COPY prime_lab_mcp /source/prime_lab_mcp
RUN pip install --no-cache-dir --constraint /source/constraints.txt '/source[lab,pictures]' && rm -r /source

# Environment code must not run as root: limits of processes do not hold for root. Any other user may be given with --user,
# which lets the server write a project of that user; so the volume is everybody's, and the home is in the volume.
RUN useradd --uid 1000 --home-dir /state/home lab && mkdir --mode 1777 /project /state /state/home
USER lab
ENV PRIME_LAB_STATE_DIR=/state/prime-lab HOME=/state/home PYTHONUNBUFFERED=1
VOLUME /state
WORKDIR /project
ENTRYPOINT ["prime-lab-mcp"]
CMD ["serve", "--workspace", "/project"]
