"""Generated model repositories, and a real tritonserver's verdict on each."""
