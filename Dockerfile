# The server with its toolchain. Build: docker build -t prime-lab-mcp .
# Run, as a client starts it: docker run -i --rm -v "$PWD:/project" -v prime-lab-state:/state prime-lab-mcp
# No -t: a terminal would corrupt the protocol. docs/releasing.md says what was tried of this file.
FROM python:3.12-slim

COPY constraints.txt pyproject.toml README.md LICENSE /source/
COPY prime_lab_mcp /source/prime_lab_mcp
RUN pip install --no-cache-dir --constraint /source/constraints.txt '/source[lab,pictures]' && rm -r /source

# Environment code must not run as root: limits of processes do not hold for root.
RUN useradd --create-home --uid 1000 lab && mkdir /project /state && chown lab:lab /project /state
USER lab
ENV PRIME_LAB_STATE_DIR=/state PYTHONUNBUFFERED=1
VOLUME /state
WORKDIR /project
ENTRYPOINT ["prime-lab-mcp"]
CMD ["serve", "--workspace", "/project"]
